"""The HTTP server: connections, direct and ASGI routes, and the processes that serve them."""
