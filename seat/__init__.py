"""seat: speech to text on a graphics card that has neighbours."""

__version__ = "0.1.0"
