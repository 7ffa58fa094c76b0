"""The functions of the routes, in one module for each kind of object; `api.routes` is the table."""
