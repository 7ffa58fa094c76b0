"""Start pending work, and make reservations for work that has waited long."""
