"""Tell whether a seat does what it says: `visit` orders the checks, `patient` reads, `findings` judges."""
