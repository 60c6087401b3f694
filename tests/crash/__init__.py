"""The crash test: real conversions, ended at random moments, then continued and compared.

``make crashtest`` runs it at length, ``test_crash.py`` a short form of it.
"""
