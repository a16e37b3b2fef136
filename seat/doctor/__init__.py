"""Tell whether a seat does what it says: `visit` orders the checks, `patient` takes readings, `findings` judges them."""
