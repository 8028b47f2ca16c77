"""A lazy tree of decisions with four verdicts, searched by branch and bound."""
