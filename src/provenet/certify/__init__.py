"""What an answer is worth: candidates, checks on the user's own labels, the one judge, the result.

Imports `fitting` and what is below it; knows no method.
"""
