"""Printers: text in C and other languages from the op table and the loop representation."""
