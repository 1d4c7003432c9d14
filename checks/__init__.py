"""These checks of the source code belong to `make check`: class names that stand twice, migrations, sizes."""
