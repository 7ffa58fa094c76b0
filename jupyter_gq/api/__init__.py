"""The HTTP interface of the scheduler service: authorised by Hub scopes, per method and per object."""
