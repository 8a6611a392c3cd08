"""Callbacks for training frameworks: the program's steps and phases, and the result in its trackers.

Each module needs its framework, and is imported by name:

    >>> from ncclscope.callbacks.lightning import NcclscopeCallback
    >>> from ncclscope.callbacks.transformers import NcclscopeCallback
    >>> from ncclscope.callbacks.torch import steps_of_optimizer

Rule: a callback does nothing in a process that is not recorded, and never changes what is trained.
"""
