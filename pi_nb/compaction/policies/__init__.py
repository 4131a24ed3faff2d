"""Ways to make room, one a file: each looks at a branch and a budget and gives a plan.

`policy` knows them by name.
"""
