"""Host-side data: NumPy and SciPy in, NumPy and SciPy out; nothing here touches a device."""
