"""What would this policy have done to my fleet? A model of a fleet, driving the same decisions as FleetBudget."""
