"""DPU: a compiler, simulator and runtime for a small diffusion processing unit."""

__version__ = "0.1.0"
