-- Whether an operator of a compiled program calls a function of Python, and waits for it: JAX's callbacks, TensorFlow's
-- py_function.
CREATE OR REPLACE MACRO calls_python(name) AS
    regexp_matches(name, '^((pure|io|debug)_callback|(Eager)?PyFunc(Stateless)?)\b');
