"""One function for each route, by object; `api.routes` says which."""
