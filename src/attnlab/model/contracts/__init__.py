"""What every part of a model promises, tried on small models of every kind it can stand in.

`attnlab.testing.assert_contract` asks it of a part of your own; the tests ask it of every registered one.
"""
