-- A size in bytes with a binary unit, such as '2.0 GiB', as the format `bytes` of messages writes it; NULL for NULL.
CREATE OR REPLACE MACRO sized(size_bytes) AS CASE
    WHEN abs(size_bytes) < 1024 THEN printf('%.0f B', CAST(size_bytes AS DOUBLE))
    WHEN abs(size_bytes) < 1048576 THEN printf('%.1f KiB', size_bytes / 1024)
    WHEN abs(size_bytes) < 1073741824 THEN printf('%.1f MiB', size_bytes / 1048576)
    WHEN abs(size_bytes) < 1099511627776 THEN printf('%.1f GiB', size_bytes / 1073741824)
    WHEN size_bytes IS NOT NULL THEN printf('%.1f TiB', size_bytes / 1099511627776)
END
