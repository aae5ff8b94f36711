"""What people and scripts touch: the HTTP routes, the page, and what stands around them."""
