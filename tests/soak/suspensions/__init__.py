"""The soak of suspensions: services and kernels are killed at random moments of suspensions and resumes.

The machine lives on when a service dies: real processes hold the memory of devices that are simulated, or of fakes of
the driver's libraries in C. What is suspended is judged by what the driver shows, never by what the service says.

See docs/decisions/0169-soak-suspensions-with-real-deaths.md.
"""
