"""`Array`: its class, transfers between the host and devices, donation, exchange with other libraries."""
