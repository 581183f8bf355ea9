"""The documents as a site: ``make site`` writes docs/ to build/site, with what its pages link to in the repository."""
