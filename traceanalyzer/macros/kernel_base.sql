-- The function of a kernel, of its name as kernel_identity gives it: without template arguments and namespaces.
CREATE OR REPLACE MACRO kernel_base(identity) AS
    regexp_replace(without_nested(without_nested(identity, '<[^<>]*>'), '<[^<>]*>'), '^.*::', '');
