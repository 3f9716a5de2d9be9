"""Language models, their configurations, and sampling from them.

Nothing is imported here, so that ``engine.models.config`` stays light enough for a web process.
"""
