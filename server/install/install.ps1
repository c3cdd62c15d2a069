<#
Installs the pushd agent from @SERVER@ as a service of this machine. In a
PowerShell of an administrator:
  & ([scriptblock]::Create((irm @SERVER@/install.ps1))) -MachineId win-1 -TokenFile .\token.txt
and removes it again:
  & ([scriptblock]::Create((irm @SERVER@/install.ps1))) -Uninstall
Run like this no policy for script files applies. The token comes from a file and
is copied; it is in no command line. Settings that are there stay as they are;
installing again updates the program.
#>
[CmdletBinding()]
param(
    [ValidatePattern('\A[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}\z')] [string] $MachineId = $env:COMPUTERNAME,
    [string] $TokenFile,
    [ValidatePattern('\Ahttps?://[A-Za-z0-9._:/\[\]-]+\z')] [string] $Server = '@SERVER@',
    [switch] $Uninstall
)
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue' # drawing it makes a download slow
Set-StrictMode -Version 2

# A default is not held against its pattern.
if ($MachineId -notmatch '\A[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}\z') { throw "$MachineId is no machine's id: say -MachineId" }

$files = @{
@FILES@
}

$folder = Join-Path $env:ProgramFiles 'pushd-agent'
$program = Join-Path $folder 'pushd.exe'
$data = Join-Path $env:ProgramData 'pushd'
$settings = Join-Path $data 'agent.yaml'

function Invoke-Agent([string[]] $Arguments) {
    & $program agent @Arguments
    if ($LASTEXITCODE -ne 0) { throw "pushd agent $($Arguments[0]) ended with $LASTEXITCODE" }
}

# Only the system and administrators read what is below it.
function Protect-Folder([string] $Path) {
    New-Item -ItemType Directory -Force -Path $Path | Out-Null
    & icacls.exe $Path /inheritance:r /grant:r '*S-1-5-18:(OI)(CI)F' '*S-1-5-32-544:(OI)(CI)F' /Q | Out-Null
    if ($LASTEXITCODE -ne 0) { throw "the access list of $Path cannot be set" }
}

function Get-Program([string] $Into) {
    $arch = $env:PROCESSOR_ARCHITEW6432
    if (-not $arch) { $arch = $env:PROCESSOR_ARCHITECTURE }
    $system = switch ($arch) { 'AMD64' { 'windows-amd64' } 'ARM64' { 'windows-arm64' } default { throw "there is no agent for $arch" } }
    # Windows on ARM runs programs for amd64 too.
    if (-not $files.ContainsKey($system)) { $system = 'windows-amd64' }
    if (-not $files.ContainsKey($system)) { throw 'the server has no file for Windows' }
    $name, $sum = $files[$system]
    [Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12
    $file = Join-Path $Into $name
    $from = $Server.TrimEnd('/') + '/download/' + $name
    Write-Host "Downloading $from"
    Invoke-WebRequest -UseBasicParsing -Uri $from -OutFile $file
    $got = (Get-FileHash -Algorithm SHA256 -LiteralPath $file).Hash
    if ($got -ne $sum) { throw "$name is not what it should be: its SHA-256 is $got, not $sum" }
    if ($name -notlike '*.zip') { return $file }
    $unpacked = Join-Path $Into 'unpacked'
    Expand-Archive -LiteralPath $file -DestinationPath $unpacked
    return Join-Path (Join-Path $unpacked ($name -replace '\.zip\z', '')) 'pushd.exe'
}

function Write-Settings {
    if ($TokenFile) { [IO.File]::WriteAllBytes((Join-Path $data 'token'), [IO.File]::ReadAllBytes((Resolve-Path -LiteralPath $TokenFile).ProviderPath)) }
    if (Test-Path -LiteralPath $settings) { Write-Host "$settings is kept as it is."; return }
    $lines = @("server: '$Server'", "machine_id: '$MachineId'")
    if (Test-Path -LiteralPath (Join-Path $data 'token')) { $lines += 'token_file: token' }
    $lines += 'handlers: # by action type; docs/agents.md has them all'
    $lines += "  ping: {kind: exec, command: ['" + $program.Replace("'", "''") + "', version]}"
    [IO.File]::WriteAllText($settings, ($lines -join "`n") + "`n") # UTF-8 without a mark
}

$me = New-Object Security.Principal.WindowsPrincipal([Security.Principal.WindowsIdentity]::GetCurrent())
if (-not $me.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) { throw 'a service is installed by an administrator: open PowerShell as one' }

if ($Uninstall) {
    if (-not (Test-Path -LiteralPath $program)) { throw "no agent is installed: $program is not there" }
    Invoke-Agent uninstall
    Remove-Item -LiteralPath $folder -Recurse -Force
    Write-Host "The agent is removed; its settings and journal stay in $data."
    return
}

if ($TokenFile -and -not (Test-Path -LiteralPath $TokenFile -PathType Leaf)) { throw "the token file $TokenFile is not there" }
$work = Join-Path ([IO.Path]::GetTempPath()) ('pushd-' + [Guid]::NewGuid().ToString('N'))
Protect-Folder $work
try {
    $new = Get-Program $work
    if (Get-Service -Name pushd-agent -ErrorAction SilentlyContinue) { Invoke-Agent stop }
    New-Item -ItemType Directory -Force -Path $folder | Out-Null
    Copy-Item -LiteralPath $new -Destination $program -Force
    Protect-Folder $data
    Write-Settings
    Invoke-Agent @('install', '--config', $settings)
    Invoke-Agent start
    Write-Host "The agent runs: its settings are in $settings."
} finally {
    Remove-Item -LiteralPath $work -Recurse -Force -ErrorAction SilentlyContinue
}
