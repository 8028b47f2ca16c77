"""Matrix products as decisions, judged before anything is built."""
