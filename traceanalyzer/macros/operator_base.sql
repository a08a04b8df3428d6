-- An operator's name without that of its overload, which profilers add on request: aten::add.Tensor is aten::add.
CREATE OR REPLACE MACRO operator_base(name) AS
    if(contains(name, '::') AND contains(name, '.'), regexp_replace(name, '^(\w+::\w+)\.\w+$', '\1'), name);
