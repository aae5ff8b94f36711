"""The page: what people see and touch. It speaks through the same engine as the HTTP routes."""
