"""Trying judgement without a fleet: one line, a captured log, and what shadow decisions have earned.

Everything here reads; the decisions are those of the detector, the incident and the budget themselves.
"""
