"""Do people agree with the diagnoses? A page for two of them, their answers, and what the answers say."""
