"""`Array`: its class, how values get to devices and back, donation, exchange with other libraries."""
