"""How every embedded model was made, one command each. Imported by nobody."""
