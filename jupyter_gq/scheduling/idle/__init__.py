"""Idle notebooks: the idle rule, warnings, and shares that are lent and given back."""
