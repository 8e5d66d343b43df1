"""Other people's servers: requests to them, and what their answers say."""
