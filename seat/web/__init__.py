"""The border to HTTP: the only package, with `seat.app`, that imports litestar."""
