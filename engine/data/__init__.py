"""Text for language models: corpora, character tokens, training windows.

Nothing is imported here: ``engine.data.tokenizer`` and ``engine.data.corpora`` stay free of the tensor engine.
"""
