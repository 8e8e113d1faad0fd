"""The cache on disk: answers of earlier commands, stored as JSON in the user's cache folder.

An entry is keyed by everything that determines it, including the code of wse (`content_key`). It
contains only plain values, which are checked against the types of a class when they are read
(`records`). The files are managed by `store`.
"""
