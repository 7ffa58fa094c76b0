"""One function for each route, in one module for each kind of object; `api.routes` is the table."""
