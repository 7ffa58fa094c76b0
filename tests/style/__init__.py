"""The static checks that no tool brings along; `make style` runs them."""
