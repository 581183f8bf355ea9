"""The messages and names that cross process boundaries, and the policy model.

The ground floor: it imports pydantic and the standard library only, so that the detector, the worker, the
workflows and the command line can all stand on it. It decides nothing and touches nothing.
"""
