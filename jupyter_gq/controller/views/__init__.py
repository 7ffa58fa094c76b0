"""The views of records and totals for owners and administrators. Decides nothing."""
