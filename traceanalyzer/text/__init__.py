"""The ground floor: words, numbers and names as people read them, texts for SQL and CSV, and what must not be shown."""
