"""Installs what a checkout of tiermesh needs, with nothing but the system's Python.

`python3 mesh/bootstrap up` is what `make up` runs. Only the standard library may be imported
here: this code runs before anything is installed.
"""
