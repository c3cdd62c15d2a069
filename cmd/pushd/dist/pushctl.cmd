@"%~dp0pushd.exe" %*
