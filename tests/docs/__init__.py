"""The pages agree with the code and with each other."""
