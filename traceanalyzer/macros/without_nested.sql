-- A text without what matches a pattern, and without what matches once that is gone: eight levels of brackets.
CREATE OR REPLACE MACRO without_nested(text, pattern) AS
    regexp_replace(regexp_replace(regexp_replace(regexp_replace(
    regexp_replace(regexp_replace(regexp_replace(regexp_replace(
        text,
        pattern, '', 'g'), pattern, '', 'g'), pattern, '', 'g'), pattern, '', 'g'),
        pattern, '', 'g'), pattern, '', 'g'), pattern, '', 'g'), pattern, '', 'g');
