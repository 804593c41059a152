"""`python -m rmqspark` is `rmq`."""

from rmqspark.cli.main import main

if __name__ == "__main__":
    main()
