"""The recipe of the bundled demo model: vocabulary, synthetic speech, training and measuring.

Nothing in here runs inside the service; it is kept so that anyone can make `demo.nemo` again and check its figures.
"""
