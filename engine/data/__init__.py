"""Text for language models: corpora, character tokens, training windows.

Nothing is imported here, so that ``tokenizer`` and ``corpora`` stay free of the tensor engine.
"""
