"""The damage matrix: every format, every kind of damage, and what is made of it.

layouts   the datasets that are damaged
kinds     what is done to their files
judge     what must come of it
__main__  all cases of one layout, in a process that may crash; or a table of all
"""
