"""What runs inside the jail: standard library, numpy, Pillow, matplotlib, OpenCV, and never saccade itself."""
